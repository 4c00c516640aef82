"""Tokens that are signed with a key of the curve P-256 (RFC 7515, RFC 7518 section 3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringonce.core.base64url import base64url
from ringonce.core.compact import json_bytes
from ringonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


def es256_key(text: str, name: str, mend: str) -> EllipticCurvePrivateKey:
    """The private key in a PEM text. ``name`` and ``mend`` are those of the option it stands in.

    Raises:
        ConfigError: it is none. The error does not repeat it.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key: object = load_pem_private_key(text.strip().encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ConfigError("this is no private key of the curve P-256 in PEM", field=name, mend=mend)
    return key


def es256(key: EllipticCurvePrivateKey, header: Mapping[str, object], claims: Mapping[str, object]) -> str:
    """The signed token. The same for the same input, in each process: the signature draws no lots (RFC 6979)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    signed = f"{base64url(json_bytes({**header, 'alg': 'ES256'}))}.{base64url(json_bytes(claims))}"
    algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
    r, s = decode_dss_signature(key.sign(signed.encode(), algorithm))
    return f"{signed}.{base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"

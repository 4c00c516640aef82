"""Tokens signed with a key of the curve P-256."""

import base64
import json

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from ringonce.core.es256 import es256, es256_key
from ringonce.errors import ConfigError


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    """Write the key as PKCS 8."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


KEY = ec.derive_private_key(4_711, ec.SECP256R1())


def decoded(part: str) -> bytes:
    """Read base64url."""
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_signature() -> None:
    """The public key verifies head and claims, which are in the token as JSON."""
    token = es256(es256_key(pem(KEY), "key", ""), {"kid": "K"}, {"iss": "T", "iat": 1})
    head, claims, signature = token.split(".")
    assert json.loads(decoded(head)) == {"alg": "ES256", "kid": "K"}
    assert json.loads(decoded(claims)) == {"iss": "T", "iat": 1}
    raw = decoded(signature)
    assert len(raw) == 64
    both = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    KEY.public_key().verify(both, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))


def test_the_same_each_time() -> None:
    """Two that know the same key and time make the same token, byte by byte."""
    made = {es256(es256_key(f"\n{pem(KEY)}\n", "key", ""), {"kid": "K"}, {"iat": 1}) for _ in range(5)}
    assert len(made) == 1
    assert es256(KEY, {"kid": "K"}, {"iat": 2}) not in made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no key",
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        KEY.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        ).decode(),
    ],
)
def test_no_key(text: str) -> None:
    """Another curve, another kind of key, or one with a password is refused, and not repeated."""
    with pytest.raises(ConfigError) as error:
        es256_key(text, "key", "give the file")
    assert (error.value.field, error.value.mend) == ("key", "give the file")
    assert "PRIVATE" not in str(error.value)

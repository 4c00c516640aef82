"""Settings: as few as this shop needs."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

BASE_DIR = Path(__file__).parents[1]
SECRET_KEY = os.environ.get("SECRET_KEY", "for-development-only")
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
INSTALLED_APPS = ["shop"]
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

# One variable for the shop and for ringonce.toml: sqlite:///shop.db or postgresql://user:password@host/name
_url = urlsplit(os.environ["DATABASE_URL"])
if _url.scheme == "sqlite":
    _default = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": _url.path[1:],
        # Writers wait for their turn before they have read anything, so that none has to start anew.
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
else:
    _default = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path[1:],
        "USER": unquote(_url.username or ""),
        "PASSWORD": unquote(_url.password or ""),
        "HOST": _url.hostname,
        "PORT": _url.port,
    }
DATABASES = {"default": _default}

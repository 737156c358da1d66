"""The minimal settings of a Django project. Hookline needs only its entry in INSTALLED_APPS."""

import os
from pathlib import Path

HERE = Path(__file__).parent

SECRET_KEY = "for trying things out on loopback"  # noqa: S105
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "shop.views"
INSTALLED_APPS = ["shop", "hookline.outbox.django"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", HERE / "shop.db"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode = WAL"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

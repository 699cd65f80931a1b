"""Settings: every default runs with no variable set.

Each value that a site may change is read from the environment here and listed
in docs/operations.md. Wrong combinations are reported by the system checks in
supportkg/checks.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import dj_database_url

from supportkg.lib import services

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = "0.1"


def _flag(name: str, default: bool) -> bool:
    value = os.environ.get(name, "").strip().lower()
    return value in {"1", "true", "yes", "on"} if value else default


def _list(name: str, default: str) -> list[str]:
    return [v.strip() for v in os.environ.get(name, default).split(",") if v.strip()]


def _number(name: str, default: float) -> float:
    value = os.environ.get(name, "")
    try:
        return float(value) if value else default
    except ValueError:
        raise SystemExit(f"{name}='{value}' is not a number.") from None


# Services: an address from the environment, or the embedded one of this checkout.
_connections = services.connections()
DATABASES = {
    # A connection a request: under ASGI requests run in changing threads, and kept
    # connections would pile up.
    "default": dj_database_url.parse(_connections.database_url, conn_max_age=0)
}
NEO4J_URI = _connections.neo4j_uri
NEO4J_USER = _connections.neo4j_user
NEO4J_PASSWORD = _connections.neo4j_password
NEO4J_DATABASE = _connections.neo4j_database
GRAPH_QUERY_TIMEOUT = _number("GRAPH_QUERY_TIMEOUT", 5)

CELERY_BROKER_URL = _connections.broker_url
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_TIME_LIMIT = 600
CELERY_TASK_SOFT_TIME_LIMIT = 540
# RabbitMQ has no redelivery time and refuses options that it does not know.
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {"visibility_timeout": 3600, "socket_connect_timeout": 3}
    if CELERY_BROKER_URL.startswith(("redis", "valkey"))
    else {}
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

# The product
EMBEDDING_MODEL = os.environ.get("EMBEDDING_MODEL", "all-MiniLM-L6-v2")
TICKET_TIME_ZONE = os.environ.get("TICKET_TIME_ZONE", "UTC")

# Web
DEBUG = _flag("DEBUG", False)
SECRET_KEY = os.environ.get("SECRET_KEY") or _connections.secret_key
ALLOWED_HOSTS = _list("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = _list("CSRF_TRUSTED_ORIGINS", "")
SECURE_COOKIES = _flag("SECURE_COOKIES", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SECURE_COOKIES else None
SECURE_HSTS_SECONDS = int(_number("SECURE_HSTS_SECONDS", 0))
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "supportkg.apps.SupportkgConfig",
    "tickets",
    "retrieval",
]
MIDDLEWARE = [
    "supportkg.csp.middleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "supportkg.urls"
ASGI_APPLICATION = "supportkg.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "retrieval:ask"
LOGOUT_REDIRECT_URL = "login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
# Without a folder of collected files they are served from where they lie.
STATIC_ROOT = os.environ.get("STATIC_ROOT") or None
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
WHITENOISE_AUTOREFRESH = DEBUG

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["knox.auth.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "supportkg.problems.handle",
}
REST_KNOX = {"AUTH_HEADER_PREFIX": "Bearer", "TOKEN_TTL": None, "TOKEN_PREFIX": "skg_"}
SPECTACULAR_SETTINGS = {
    "TITLE": "SupportKG",
    "DESCRIPTION": "Cited answers from solved tickets.",
    "VERSION": VERSION,
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": os.environ.get("LOG_LEVEL", "WARNING")},
    # A page that is not there is the visitor's affair.
    "loggers": {"django.request": {"level": "ERROR"}},
}

"""The site: settings, addresses, and one file per outside service in lib/."""

from .celery import app as celery_app

__all__ = ["celery_app"]

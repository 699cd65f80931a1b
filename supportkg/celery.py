"""The Celery application. It names the apps and holds no logic."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "supportkg.settings")

app = Celery("supportkg")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

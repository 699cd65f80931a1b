"""Registers the system checks."""

from django.apps import AppConfig


class SupportkgConfig(AppConfig):
    name = "supportkg"

    def ready(self) -> None:
        from . import checks  # noqa: F401, PLC0415 - registering is its effect

"""Addresses of the ticket pages. A key may hold slashes."""

from django.urls import path

from . import views

app_name = "tickets"
urlpatterns = [
    path("tickets/", views.tickets, name="tickets"),
    path("tickets/<slug:source>/<path:key>/", views.ticket, name="ticket"),
    path("raw/<slug:source>/<path:key>/", views.raw, name="raw"),
]

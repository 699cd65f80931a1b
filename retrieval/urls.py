"""Addresses of the answer desk."""

from django.urls import path

from . import views

app_name = "retrieval"
urlpatterns = [
    path("", views.ask, name="ask"),
    path("answers/", views.answers, name="answers"),
    path("answers/<uuid:pk>/", views.answer, name="answer"),
]

"""The addresses of the site. It names the apps and holds no logic."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from retrieval import api as retrieval
from tickets import api as tickets

from . import views

api = [
    path("answers", retrieval.answers, name="answers"),
    path("answers/<uuid:pk>", retrieval.answer, name="answer"),
    path("tickets", tickets.tickets, name="tickets"),
    path("tickets/<path:key>", tickets.ticket, name="ticket"),
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="api:schema"), name="docs"),
]
urlpatterns = [
    path("", include("retrieval.urls")),
    path("", include("tickets.urls")),
    path("api/v1/", include((api, "api"))),
    path("sign-in/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    # The admin's shortcut to an object's page tells the address of objects of others.
    path("admin/r/<path:target>", views.not_found, name="shortcut"),
    path("admin/", admin.site.urls),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
]
handler400 = "supportkg.views.bad_request"
handler403 = "supportkg.views.forbidden"
handler404 = "supportkg.views.not_found"
handler500 = "supportkg.views.crashed"

"""Template filters for what a ticket says."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from tickets.models import Section
from tickets.text import prose

register = template.Library()


@register.filter
def section_html(section: Section) -> SafeString:
    """A section's text as safe HTML; code as it was pasted."""
    if section.kind == "code_block":
        return format_html('<pre tabindex="0"><code>{}</code></pre>', section.text)
    return prose.to_html(section.text)

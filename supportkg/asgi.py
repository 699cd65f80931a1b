"""The ASGI application that uvicorn serves."""

import os
import warnings

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "supportkg.settings")

# Static files are small and sent by a synchronous iterator.
warnings.filterwarnings("ignore", "StreamingHttpResponse must consume synchronous iterators")

application = get_asgi_application()

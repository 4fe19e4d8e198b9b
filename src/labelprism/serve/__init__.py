"""`labelprism serve`: models behind HTTP.

`app.create_app(settings)` is the ASGI application, `run.run(settings)` the whole server. FastAPI, uvicorn and
prometheus_client come with the extra `serve` and are loaded by those modules only.
"""

from labelprism.serve.settings import ServeSettings

__all__ = ["ServeSettings"]

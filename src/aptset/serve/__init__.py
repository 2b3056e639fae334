"""A service of prediction sets that learns whether it keeps its word: ``aptset serve FOLDER``."""

from aptset.serve.application import Service, ServiceSettings, application
from aptset.serve.served import Choice

__all__ = ["Choice", "Service", "ServiceSettings", "application"]

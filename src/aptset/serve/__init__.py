"""A service of prediction sets that learns whether it keeps its word: ``aptset serve FOLDER``."""

from aptset.serve.application import Service, application
from aptset.serve.served import Choice
from aptset.serve.worker import ServiceSettings

__all__ = ["Choice", "Service", "ServiceSettings", "application"]

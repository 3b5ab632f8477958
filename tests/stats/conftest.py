"""Settings of the property tests."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)  # a slow moment of the machine is no failure
settings.load_profile("shared machine")

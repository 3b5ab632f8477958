"""Settings of the property tests."""

from hypothesis import settings

# a slow moment of the machine is no failure, and every example judges whole tables
settings.register_profile("shared machine", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("shared machine")

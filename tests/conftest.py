"""What holds for every test."""

from hypothesis import settings

# A test never judges by the clock: this machine may be busy.
settings.register_profile("tuner", deadline=None)
settings.load_profile("tuner")

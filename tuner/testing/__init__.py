"""Fakes and simulations that ship with tuner, because users test their studies too."""

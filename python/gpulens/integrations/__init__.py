"""Callbacks for training frameworks. Each module imports its own framework and no other."""

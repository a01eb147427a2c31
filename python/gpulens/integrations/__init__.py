"""Callbacks for training frameworks. Each module imports its framework, and only it does."""

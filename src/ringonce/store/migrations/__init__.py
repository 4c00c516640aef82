"""Alembic's folder: ``env.py`` and the migrations, oldest first. Imported only to migrate."""

"""The database: one implementation of ``ports.Store`` for SQLite and PostgreSQL. The only room with SQL."""

"""What the benchmarks share: servers, accounts, processor time, statistics, tables, plots."""

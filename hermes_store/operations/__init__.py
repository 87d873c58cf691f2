"""What spans several tables in one unit of work. Counters are changed here and nowhere else."""

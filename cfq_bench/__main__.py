"""``python -m cfq_bench`` is ``cfq-bench``."""

from cfq_bench.cli.main import main

if __name__ == "__main__":
    main()

"""python -m softmaxlab"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, put there by -m: a file in it may be named like a library
    from softmaxlab.cli import main

    main()

"""python -m softmaxlab"""

from softmaxlab.cli import main

main()

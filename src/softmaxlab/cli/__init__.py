"""The command line: one file per command; each parses, calls and prints."""

from softmaxlab.cli.app import main as main

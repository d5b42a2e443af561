"""The explorer: four pages in the browser, on this machine only.

A view is one small state (states.py); its query string is the permalink. State → spec → result → figure are plain
functions, and the pages only wire them to controls.
"""

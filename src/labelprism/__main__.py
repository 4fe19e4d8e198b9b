"""`python -m labelprism`: the program `labelprism`."""

from labelprism.cli import run

if __name__ == "__main__":
    run()

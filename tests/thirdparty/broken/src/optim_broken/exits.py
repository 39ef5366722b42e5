import sys

print("goodbye")
sys.exit(7)

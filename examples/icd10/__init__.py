"""Demo: from a disease name to its ICD-10-CM code and the code's ancestors, evaluated
from head to tail.
"""

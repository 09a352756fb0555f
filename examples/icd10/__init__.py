"""Demo: finds the ICD-10-CM code of a disease name, and the code's ancestors.

The model is evaluated from head to tail.
"""

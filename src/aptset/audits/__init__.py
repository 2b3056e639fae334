"""Splitting again and again: is the promise kept on these data, and which model has the better sets?"""

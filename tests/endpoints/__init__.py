"""Servers for tests: real sockets, scripted answers.

scripted    an OpenAI-compatible server with faults on demand, a process of its own
answers     what it says
process     how a test starts, kills and questions it
stages      small stages for the runner's tests
"""

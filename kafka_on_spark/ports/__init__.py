"""What the services ask of the outside world. Implemented in storage/ and spark/.

A port is the narrowest question a service needs answered, in the service's words. Every
implementation, the tests' in-memory one too, passes tests/contract/.
"""

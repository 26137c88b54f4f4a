"""A whole Raft client of Kafka's, by handlers over the production's values. Only tests run it.

Processes here answer no requests: any of them acts for any voter, by commits on its table. What
Kafka's client does with requests, answers and timers is kept here, to hold the decisions that it
makes against ours: `client` (state and time), `votes`, `fetches`, `changes` (of voters).
Source: KafkaRaftClient.
"""

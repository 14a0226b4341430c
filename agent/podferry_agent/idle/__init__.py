"""Whether anybody uses the box: what is measured, over which time, and the agent's own verdict.

| signal | what is measured | active from |
|---|---|---|
| gpu | use of the busiest GPU, by nvidia-smi | 6 % |
| cpu | CPU time of all programs of the box | 10 % of one core |
| network | bytes in and out on all interfaces but loopback | 10 kB/s |
| ssh | SSH sessions, and terminals that somebody typed at | one in the window |
| processes | the program that uses most CPU time | 6 % of one core |

All are means over the last five minutes, weighted by time, so that one odd sample neither ends an
idle time nor makes one. The agent's own CPU time and traffic are left out. A signal that was not
measured for more than a fifth of that time is unknown, and what is unknown is not idle.
"""

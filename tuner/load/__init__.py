"""Load generators behind one port: tuner-loadgen (native), and wrk2 and h2load where they are."""

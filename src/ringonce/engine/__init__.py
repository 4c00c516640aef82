"""Make it happen: the workers, and the only interpreter of effects. Ports in, ports out."""

"""Reserved for the personal knowledge graph and episodic memory (docs/architecture.md)."""

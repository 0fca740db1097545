"""Tests of compeer.corpora: counts on the real files, and what broken files come to."""

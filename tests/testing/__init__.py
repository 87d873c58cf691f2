"""What the package offers to the tests of others."""

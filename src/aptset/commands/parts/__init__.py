"""Many files as one: found by a glob, in a folder or on an object store; and the folder that their sets go to."""

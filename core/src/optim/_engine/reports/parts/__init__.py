"""Parts of a report that have a file each: what they hold, and how they are made of what a run found."""

"""Running a suite: who runs what, on one machine or many, so that no run is published twice."""

-- Beside `dagster` (Dagster's runs), the catalog of the lake that holds the results.
CREATE DATABASE lake;

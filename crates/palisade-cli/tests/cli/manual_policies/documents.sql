-- Tickets whose numbers are large and whose texts are JSON, and what people earn.
CREATE TABLE tickets (id INTEGER PRIMARY KEY, body TEXT) STRICT;
CREATE TABLE staff (id INTEGER PRIMARY KEY, team TEXT NOT NULL, salary INTEGER NOT NULL) STRICT;
INSERT INTO tickets VALUES
  (7, '{"address": {"city": "Bonn", "street": "Am Markt 1"}, "preferences": {"dark": true}, "tags": ["new"], "secret": 1}'),
  (2000, NULL);
INSERT INTO staff VALUES (1, 'desk', 10), (2, 'desk', 20), (3, 'desk', 30), (4, 'desk', 40), (5, 'desk', 50), (6, 'sales', 60);

-- More tickets than an answer may have.
CREATE TABLE tickets (id INTEGER PRIMARY KEY, subject TEXT NOT NULL) STRICT;
CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
INSERT INTO tickets
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 201)
SELECT n, 'Dark mode' FROM numbers;
INSERT INTO staff SELECT id, 'Ines Duarte' FROM tickets;

CREATE TABLE people (id INTEGER PRIMARY KEY, mail TEXT, secret TEXT);
CREATE TABLE notes (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people, text TEXT);
CREATE VIEW names AS SELECT id, mail FROM people;
INSERT INTO people VALUES (1, 'ada@example.com', 'x'), (2, 'elif@example.com', 'y');
INSERT INTO notes VALUES (1, 1, 'first');
CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image text NOT NULL, PRIMARY KEY (change_id, part));

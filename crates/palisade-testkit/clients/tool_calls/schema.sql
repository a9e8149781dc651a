CREATE TABLE people (id INTEGER PRIMARY KEY, mail TEXT, secret TEXT);
CREATE TABLE notes (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people, text TEXT);
CREATE VIEW names AS SELECT id, mail FROM people;
INSERT INTO people VALUES (1, 'ada@example.com', 'x'), (2, 'elif@example.com', 'y');
INSERT INTO notes VALUES (1, 1, 'first');
CREATE TABLE palisade_images (change_id varchar(64) NOT NULL, part integer NOT NULL, kept_ms bigint NOT NULL, image text NOT NULL, PRIMARY KEY (change_id, part));
-- History of "notes": every state of its rows from now on. Earlier history of it is dropped.
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS main."palisade_history.marks" (seq INTEGER PRIMARY KEY, mark INTEGER NOT NULL DEFAULT (random()));
CREATE TABLE IF NOT EXISTS main."palisade_history.spans" (relation TEXT PRIMARY KEY, since INTEGER NOT NULL);
DROP TRIGGER IF EXISTS main."palisade_history_notes_insert";
DROP TRIGGER IF EXISTS main."palisade_history_notes_update";
DROP TRIGGER IF EXISTS main."palisade_history_notes_delete";
DROP TABLE IF EXISTS main."palisade_history_notes";
CREATE TABLE main."palisade_history_notes" ("id" INTEGER, "person" INTEGER, "text" TEXT, palisade_from INTEGER NOT NULL, palisade_to INTEGER);
CREATE INDEX main."palisade_history_notes_states" ON "palisade_history_notes" ("id", palisade_from);
CREATE UNIQUE INDEX main."palisade_history_notes_open" ON "palisade_history_notes" ("id") WHERE palisade_to IS NULL;
CREATE INDEX main."palisade_history_notes_ended" ON "palisade_history_notes" (palisade_to);
INSERT INTO main."palisade_history.marks" DEFAULT VALUES;
INSERT INTO main."palisade_history_notes" ("id", "person", "text", palisade_from) SELECT "id", "person", "text", (SELECT max(seq) FROM main."palisade_history.marks") FROM main."notes";
INSERT INTO main."palisade_history.spans" VALUES ('notes', (SELECT max(seq) FROM main."palisade_history.marks")) ON CONFLICT (relation) DO UPDATE SET since = excluded.since;
CREATE TRIGGER main."palisade_history_notes_insert" AFTER INSERT ON "notes" BEGIN
  INSERT INTO "palisade_history.marks" (mark) VALUES (random());
  UPDATE "palisade_history_notes" SET palisade_to = (SELECT max(seq) FROM "palisade_history.marks") WHERE palisade_to IS NULL AND ("id" IS NEW."id");
  INSERT INTO "palisade_history_notes" ("id", "person", "text", palisade_from) SELECT "id", "person", "text", (SELECT max(seq) FROM "palisade_history.marks") FROM "notes" WHERE ("id" IS NEW."id");
END;
CREATE TRIGGER main."palisade_history_notes_update" AFTER UPDATE ON "notes" BEGIN
  INSERT INTO "palisade_history.marks" (mark) VALUES (random());
  UPDATE "palisade_history_notes" SET palisade_to = (SELECT max(seq) FROM "palisade_history.marks") WHERE palisade_to IS NULL AND ("id" IS OLD."id");
  UPDATE "palisade_history_notes" SET palisade_to = (SELECT max(seq) FROM "palisade_history.marks") WHERE palisade_to IS NULL AND ("id" IS NEW."id");
  INSERT INTO "palisade_history_notes" ("id", "person", "text", palisade_from) SELECT "id", "person", "text", (SELECT max(seq) FROM "palisade_history.marks") FROM "notes" WHERE ("id" IS OLD."id") OR ("id" IS NEW."id");
END;
CREATE TRIGGER main."palisade_history_notes_delete" AFTER DELETE ON "notes" BEGIN
  INSERT INTO "palisade_history.marks" (mark) VALUES (random());
  UPDATE "palisade_history_notes" SET palisade_to = (SELECT max(seq) FROM "palisade_history.marks") WHERE palisade_to IS NULL AND ("id" IS OLD."id");
  INSERT INTO "palisade_history_notes" ("id", "person", "text", palisade_from) SELECT "id", "person", "text", (SELECT max(seq) FROM "palisade_history.marks") FROM "notes" WHERE ("id" IS OLD."id");
END;
COMMIT;

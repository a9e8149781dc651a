-- Changes to `desk` that Agent::"support-bot" must not be able to tell: hidden columns, what masks
-- take away, rows of other tenants, tables that may not be read.

DROP TRIGGER tickets_touch;
UPDATE customers SET email = 'changed' || id || '@changed.example' WHERE email IS NOT NULL;
UPDATE customers SET national_id = 'ZZ-0000-4321' WHERE id = 1;
UPDATE customers SET national_id = 'AA-9999-8765' WHERE id = 2;
UPDATE customers SET national_id = 'Q-77' WHERE id = 4;
UPDATE customers SET phone = CASE WHEN phone IS NULL THEN '+1 555' END;
UPDATE customers SET risk_note = CASE WHEN risk_note IS NULL THEN 'new note' END;
UPDATE customers SET name = 'Zed', birth_year = 2001, profile = '{"a":[1,2,3]}' WHERE id = 5;
INSERT INTO customers (id, tenant_id, name, email, national_id, phone, birth_year, risk_note, profile) VALUES
    (7, 2, 'Hal',  'hal@x.example', 'AB-1987-4321', '+44 100 200', 1800, 'pays late', '[]'),
    (8, 3, 'Ada',  'ada@mail.example', 'CD-1990-8765', NULL, 2020, NULL, '"json"'),
    (-9, 9, 'Low', NULL, NULL, NULL, NULL, NULL, NULL);
DELETE FROM tickets WHERE tenant_id = 2;
INSERT INTO tickets VALUES
    (1, 1, 2, 'A', 'not json', 'open', -9223372036854775808, 'never'),
    (99, 7, 2, 'B', NULL, 'open', 0, NULL);
DELETE FROM credentials WHERE id = 1;
UPDATE credentials SET secret = 'another';
UPDATE payroll SET salary = salary + 1;
INSERT INTO invoices VALUES (2, 5);
DELETE FROM ticket_search WHERE rowid > 13;
INSERT INTO ticket_search (rowid, subject, body) VALUES (50, 'other', 'words');
UPDATE audit_events SET what = 'other event', score = -1 WHERE tenant_id = 2;
INSERT INTO audit_events VALUES (-1, 7, 'first of all', 1e308), (4, 2, 'one more', NULL);
UPDATE calls SET caller = '{', seconds = 1 WHERE tenant_id = 2;
INSERT INTO calls (rowid, tenant_id, caller, seconds) VALUES (1, 2, 'Aaron', -9223372036854775808), (999, 2, 'Zoe', NULL);
UPDATE teams SET lead = 'other' WHERE code IN ('t2', 't3', 't4');
INSERT INTO teams VALUES ('t0', 'Eu', 'nobody'), ('t9', ' eu', 'nobody'), ('t8', 'eu ', 'nobody');
UPDATE readings SET value = 'other' WHERE id > 3;
INSERT INTO readings VALUES (8, '1x', 'hidden'), (9, 1.5, 'hidden'), (10, x'01', 'hidden');

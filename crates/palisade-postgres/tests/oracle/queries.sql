-- One statement a line. Columns, star and where.
SELECT id FROM users
SELECT name, email FROM users WHERE team = 3
SELECT * FROM orders
SELECT u.* FROM users u
SELECT id AS a, name AS b FROM public.users WHERE email IS NOT NULL AND born > DATE '2000-01-01'
SELECT count(*) FROM users
SELECT count(*) FROM users WHERE team IS NULL
SELECT 1 FROM users
SELECT FROM users WHERE id = 1
TABLE teams
SELECT "Weird.Col", "select" FROM "Odd Table"
SELECT "Odd Table"."select" FROM "Odd Table" WHERE "Odd Table".id > 1
SELECT upper(name) || coalesce(email, '') FROM users
SELECT CASE WHEN team = 1 THEN name ELSE email END FROM users
SELECT name FROM users WHERE born BETWEEN '1990-01-01' AND '2000-01-01'
SELECT name FROM users WHERE team IN (1, 2) OR name LIKE 'a%'
SELECT name FROM users WHERE name ~ '^a' AND email ILIKE '%x'
SELECT DISTINCT team FROM users
SELECT DISTINCT ON (team) name FROM users ORDER BY team, born DESC
SELECT DISTINCT ON (1) team, name FROM users ORDER BY 1, 2
SELECT a.id, b.id FROM users a, users b WHERE a.team = b.team
SELECT at FROM app.events WHERE what = 'x'
SELECT what FROM app.events_2026
SELECT extract(year FROM born), team FROM users
SELECT born::text::date, id::numeric(10, 2) FROM users
SELECT name COLLATE "C" FROM users ORDER BY email COLLATE "C"
SELECT tags[1], tags[1:2] FROM users
SELECT ARRAY[id, team] FROM users
SELECT ARRAY[name, email] || tags FROM users
SELECT doc -> 'a' ->> 'b' FROM users WHERE doc @> '{"a": 1}'
SELECT name FROM users WHERE 'x' = ANY (tags)
SELECT name FROM users WHERE mood = 'sad'
SELECT max(mood) FROM users
-- Joins.
SELECT u.name, o.total FROM users u JOIN orders o ON o.user_id = u.id
SELECT u.name, o.total FROM users u LEFT JOIN orders o ON o.user_id = u.id AND o.total > 10
SELECT o.id FROM orders o RIGHT JOIN users u ON o.user_id = u.id
SELECT u.id, o.note FROM users u FULL JOIN orders o ON o.user_id = u.id
SELECT u.name FROM users u CROSS JOIN teams t WHERE t.lead = u.id
SELECT name FROM users JOIN orders USING (id)
SELECT id, note FROM users JOIN orders USING (id)
SELECT id FROM users LEFT JOIN orders USING (id)
SELECT id FROM users RIGHT JOIN orders USING (id)
SELECT id FROM users FULL JOIN orders USING (id)
SELECT users.id, orders.id FROM users FULL JOIN orders USING (id)
SELECT * FROM users JOIN teams USING (team)
SELECT count(*) FROM users JOIN teams USING (team)
SELECT * FROM users NATURAL JOIN teams
SELECT count(*) FROM users NATURAL JOIN teams
SELECT team FROM users NATURAL LEFT JOIN teams
SELECT name FROM teams NATURAL FULL JOIN users
SELECT j.team FROM users JOIN teams USING (team) AS j
SELECT j.email FROM (users u JOIN orders o ON u.id = o.user_id) AS j (i, n, email)
SELECT j.* FROM (users u JOIN teams t ON u.team = t.team) AS j (a, b, c, d, e, f, g, h, i, k, l, m)
SELECT t.name FROM users u JOIN orders o ON o.user_id = u.id JOIN items i ON i.order_id = o.id JOIN teams t USING (team) WHERE i.price > 3
SELECT 1 FROM users JOIN orders ON true
SELECT sku FROM orders JOIN items ON orders.id = order_id WHERE users IS NOT NULL OR true
SELECT name FROM users JOIN (orders JOIN items ON orders.id = items.order_id) ON user_id = users.id
SELECT a.name FROM (users a JOIN users b USING (id)) JOIN users c USING (id)
SELECT id FROM (users JOIN orders USING (id)) JOIN "Odd Table" USING (id)
SELECT id FROM users FULL JOIN orders USING (id) FULL JOIN "Odd Table" USING (id) WHERE id > 3
SELECT name FROM users WHERE EXISTS (SELECT 1 FROM orders JOIN items ON id = order_id WHERE user_id = users.id)
-- Derived tables and LATERAL.
SELECT n FROM (SELECT name AS n, email FROM users) AS s
SELECT s.n FROM (SELECT name, email FROM users) AS s (n, e) WHERE e IS NULL
SELECT * FROM (SELECT id, name FROM users WHERE team = 1) AS s
SELECT s.total FROM users u, LATERAL (SELECT o.total FROM orders o WHERE o.user_id = u.id ORDER BY o.placed LIMIT 1) s
SELECT u.name, s.n FROM users u LEFT JOIN LATERAL (SELECT count(*) AS n FROM orders o WHERE o.user_id = u.id) s ON s.n > 1
SELECT u.id, v.x FROM users u, LATERAL (VALUES (u.name), (u.email)) AS v (x)
SELECT t FROM users u, unnest(u.tags) AS t
SELECT t, n FROM users u, unnest(u.tags) WITH ORDINALITY AS x (t, n)
SELECT g FROM users u, generate_series(1, u.team) AS g
SELECT key FROM users u, jsonb_each(u.doc)
SELECT e.value FROM users u CROSS JOIN LATERAL jsonb_array_elements_text(u.doc) AS e
SELECT x FROM generate_series(1, 3) AS x
SELECT a, b FROM ROWS FROM (generate_series(1, 3), generate_series(1, 2)) AS r (a, b)
SELECT x, y FROM (VALUES (1, 'a'), (2, 'b')) AS v (x, y)
SELECT x, name FROM (VALUES (1), (2)) AS v (x) JOIN users ON users.id = v.x
SELECT r.a, r.b FROM users u, jsonb_to_record(u.doc) AS r (a int, b text)
-- Subqueries.
SELECT name FROM users WHERE id IN (SELECT user_id FROM orders WHERE total > 10)
SELECT name FROM users WHERE id NOT IN (SELECT user_id FROM orders)
SELECT name FROM users WHERE EXISTS (SELECT FROM orders WHERE orders.user_id = users.id)
SELECT name FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id AND o.note = u.email)
SELECT (SELECT max(total) FROM orders WHERE user_id = u.id) FROM users u
SELECT (SELECT count(*) FROM orders) FROM teams
SELECT name FROM users WHERE team = (SELECT max(team) FROM teams)
SELECT name FROM users WHERE born > ALL (SELECT placed::date FROM orders)
SELECT name FROM users WHERE (id, team) IN (SELECT lead, team FROM teams)
SELECT name FROM users WHERE (id, team) = (SELECT lead, team FROM teams LIMIT 1)
SELECT ARRAY(SELECT note FROM orders WHERE user_id = u.id ORDER BY placed) FROM users u
SELECT (SELECT (SELECT u.email) FROM orders o WHERE o.id = u.id) FROM users u
SELECT (SELECT count(u.id) FROM orders o) FROM users u
SELECT name FROM users WHERE id = (SELECT o.user_id FROM orders o WHERE o.id = (SELECT i.order_id FROM items i WHERE i.sku = users.name LIMIT 1) LIMIT 1)
SELECT name FROM users ORDER BY (SELECT max(total) FROM orders o WHERE o.user_id = users.id)
SELECT id FROM orders WHERE total > (SELECT avg(total) FROM orders i WHERE i.user_id = orders.user_id)
SELECT id FROM users LIMIT (SELECT max(amount) FROM items)
-- Common table expressions.
WITH c AS (SELECT id, name FROM users) SELECT name FROM c
WITH c AS (SELECT id, name FROM users) SELECT 1
WITH c AS (SELECT id, name FROM users), d AS (SELECT name FROM c) SELECT * FROM d
WITH c (a, b) AS (SELECT id, email FROM users) SELECT a FROM c WHERE b IS NULL
WITH users AS (SELECT team AS id FROM teams) SELECT id FROM users
WITH c AS MATERIALIZED (SELECT * FROM orders) SELECT total FROM c
WITH c AS NOT MATERIALIZED (SELECT user_id, total FROM orders) SELECT x.total, y.total FROM c x JOIN c y USING (user_id)
WITH RECURSIVE r (id, depth) AS (SELECT lead, 1 FROM teams WHERE team = 1 UNION ALL SELECT u.team, depth + 1 FROM r JOIN users u ON u.id = r.id WHERE depth < 5) SELECT * FROM r
WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r WHERE n < 10) SELECT n FROM r
WITH RECURSIVE r AS (SELECT id, team FROM users UNION SELECT o.id, r.team FROM orders o JOIN r ON r.id = o.user_id) SELECT max(team) FROM r
SELECT name FROM users WHERE id IN (WITH c AS (SELECT user_id FROM orders) SELECT user_id FROM c)
WITH c AS (WITH d AS (SELECT note FROM orders) SELECT note FROM d) SELECT count(*) FROM c
-- Set operations.
SELECT name FROM users UNION SELECT note FROM orders
SELECT id, name FROM users UNION ALL SELECT team, name FROM teams ORDER BY 2
SELECT name FROM users EXCEPT SELECT name FROM teams
SELECT id FROM users INTERSECT SELECT user_id FROM orders
(SELECT id FROM users ORDER BY born LIMIT 1) UNION ALL (SELECT id FROM orders ORDER BY placed LIMIT 1)
SELECT id FROM users UNION (SELECT id FROM orders EXCEPT SELECT order_id FROM items)
SELECT n FROM (SELECT name AS n FROM users UNION SELECT name FROM teams) AS s WHERE n > 'a'
SELECT 1 UNION SELECT id FROM users
VALUES (1, 'a'), (2, 'b')
VALUES ((SELECT max(id) FROM users))
SELECT * FROM users UNION ALL SELECT * FROM ONLY users
-- Groups and windows.
SELECT team, count(*) FROM users GROUP BY team
SELECT team, count(*) FROM users GROUP BY 1 HAVING max(born) > '2000-01-01'
SELECT count(*) FROM users GROUP BY team
SELECT name, email FROM users GROUP BY id
SELECT team, mood, count(*) FROM users GROUP BY GROUPING SETS ((team), (mood), ())
SELECT team, mood, grouping(team, mood) FROM users GROUP BY ROLLUP (team, mood)
SELECT team, count(email) FROM users GROUP BY CUBE (team, mood)
SELECT extract(year FROM born) AS y, count(*) FROM users GROUP BY y ORDER BY y
SELECT sum(total) FILTER (WHERE note IS NOT NULL) FROM orders
SELECT string_agg(name, ',' ORDER BY born) FROM users
SELECT array_agg(DISTINCT team) FROM users
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM orders
SELECT mode() WITHIN GROUP (ORDER BY note) FROM orders
SELECT count(DISTINCT user_id), count(DISTINCT (user_id, note)) FROM orders
SELECT rank() OVER (ORDER BY total) FROM orders
SELECT sum(total) OVER (PARTITION BY user_id ORDER BY placed ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders
SELECT lag(total) OVER w, first_value(note) OVER w FROM orders WINDOW w AS (PARTITION BY user_id ORDER BY placed)
SELECT count(*) OVER (v ORDER BY id) FROM orders WINDOW v AS (PARTITION BY user_id)
SELECT id FROM orders WINDOW w AS (ORDER BY placed)
SELECT name FROM (SELECT name, row_number() OVER (PARTITION BY team ORDER BY born) AS n FROM users) AS s WHERE n = 1
SELECT count(*) FILTER (WHERE born > '2000-01-01') OVER (PARTITION BY team) FROM users
-- Order.
SELECT name FROM users ORDER BY born
SELECT name AS born FROM users ORDER BY born
SELECT name, id FROM users ORDER BY 2 DESC NULLS LAST
SELECT name || email AS x FROM users ORDER BY x
SELECT name FROM users ORDER BY team LIMIT 3 OFFSET 1
SELECT name FROM users ORDER BY team FETCH FIRST 2 ROWS WITH TIES
SELECT id AS name FROM users GROUP BY id, users.name ORDER BY name
-- Whole rows and fields.
SELECT u FROM users u
SELECT users FROM users
SELECT (u).name FROM users u
SELECT u.id FROM users u WHERE u IS NOT NULL
SELECT count(u) FROM users u
SELECT row_to_json(u) FROM users u
SELECT to_jsonb(o.*) FROM orders o
SELECT u::text FROM users u
SELECT ROW(u.*) FROM users u
SELECT (best).a FROM users
SELECT (u.best).b FROM users u WHERE (u.best).a = 1
SELECT (best).* FROM users
SELECT s FROM (SELECT id, name FROM users) AS s
SELECT array_agg(u ORDER BY u.id) FROM users u
SELECT a = b FROM users a, users b
SELECT row_to_json(s) FROM (SELECT name, team FROM users) AS s
SELECT json_agg(s) FROM spending AS s
SELECT jsonb_build_object('id', id, 'n', name) FROM users
SELECT c FROM (WITH c AS (SELECT lead FROM teams) SELECT c FROM c) AS x
-- Views, inheritance, functions of the database.
SELECT label FROM named
SELECT * FROM named WHERE team = 1
SELECT label FROM spenders WHERE spent > 10
SELECT spent FROM spending JOIN named USING (id)
SELECT name FROM vip
SELECT rank, email FROM vip WHERE team = 1
SELECT name FROM ONLY users
SELECT users.name FROM users JOIN vip ON vip.id = users.id
SELECT n FROM cached WHERE team = 1
SELECT app.twice(id) FROM users
SELECT app.twice(name) FROM users WHERE app.twice(team) > 2
SELECT x FROM app.upto(3) AS x
SELECT x FROM users, app.upto(users.team) AS x
SELECT h.a FROM users, app.halves(users.team) AS h
SELECT app.label(u) FROM users u
SELECT app.label(u.*) FROM users u
SELECT u.label FROM users u
SELECT app.total(team) FROM users
SELECT name FROM users WHERE best OPERATOR(app.===) ROW(1, 'a')::app.pair
SELECT tableoid::regclass, name FROM users
SELECT ctid FROM users
SELECT name FROM users TABLESAMPLE BERNOULLI (50)
SELECT name FROM users WHERE born IS DISTINCT FROM NULL AND team IS NOT DISTINCT FROM id
SELECT GREATEST(id, team), LEAST(born, DATE '2000-01-01'), NULLIF(name, email) FROM users
SELECT name FROM users WHERE ROW(id, team) < ROW(3, 4)
SELECT overlay(name PLACING 'x' FROM 1), position('a' IN email), substring(name FROM 1 FOR 2), trim(BOTH 'x' FROM name) FROM users
SELECT placed AT TIME ZONE 'UTC' FROM orders
SELECT name FROM users WHERE born + interval '1 day' > now()
-- Operators of the database behind syntax that shows none.
SELECT best = best FROM users
SELECT best NOT IN (best) FROM users
SELECT best = ANY (ARRAY[best]) FROM users
SELECT ROW(best, 1) = ROW(best, 1) FROM users
SELECT (best, id) IN (SELECT best, id FROM users) FROM users
SELECT name FROM users WHERE best = ALL (SELECT best FROM users)
SELECT name FROM users WHERE mood = name
SELECT o = o FROM odds
SELECT COALESCE(best, id) FROM users
SELECT id FROM users UNION ALL SELECT 1
SELECT best FROM users UNION ALL SELECT id FROM users
-- Operators of the database behind syntax that shows none.
SELECT CASE best WHEN best THEN 1 END FROM users
SELECT NULLIF(best, best) FROM users
SELECT best IN (best, best) FROM users
SELECT best IS DISTINCT FROM best FROM users
SELECT best IS NOT DISTINCT FROM best FROM users
SELECT best BETWEEN best AND best FROM users
SELECT 1 FROM users a JOIN users b USING (best)
SELECT 1 FROM (SELECT best FROM users) a NATURAL JOIN (SELECT best FROM users) b
SELECT name FROM users WHERE best IN (SELECT best FROM users)
SELECT CASE mood WHEN name THEN 1 END FROM users
SELECT mood IN (name) FROM users
SELECT CASE o WHEN o THEN 1 END FROM odds
SELECT CASE odd_of(1, 2) WHEN ARRAY[2, 4]::odd THEN 'wrong' END
SELECT o IN (o) FROM odds
SELECT CASE odd_of(1, 2) WHEN o THEN 1 END FROM odds
-- Casts of the database.
SELECT id::app.pair FROM users
SELECT best = id FROM users
SELECT (id + 1)::app.pair FROM users
SELECT CAST(team AS app.pair) FROM users
SELECT best IN (id, team) FROM users
SELECT mood::int FROM users
SELECT CAST(mood AS int) + 1 FROM users
SELECT best FROM users WHERE best = ANY (ARRAY[1, 2]::app.pair[])
-- Syntax of dialects of ours.
SELECT sum(team) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM users
SELECT sum(team) OVER w FROM users WINDOW w AS (PARTITION BY name ORDER BY id GROUPS 2 PRECEDING EXCLUDE TIES)
SELECT a, b FROM users, ROWS FROM (generate_series(1, users.team), app.upto(users.id)) AS x (a, b)
SELECT h.a, n FROM users, ROWS FROM (app.halves(team), unnest(tags)) WITH ORDINALITY AS h (a, b, t, n)
SELECT name FROM ONLY users WHERE email ISNULL
SELECT name FROM ONLY (users) AS u WHERE u.team NOTNULL
SELECT name FROM users * WHERE id = 1
SELECT (u).* FROM users u
SELECT (v).rank, (v).email FROM vip v
SELECT name FROM users WHERE name LIKE ANY (tags)
SELECT name FROM users WHERE email NOT ILIKE ALL (ARRAY[name, 'x'])
SELECT name FROM users WHERE name LIKE SOME (SELECT note FROM orders)
SELECT id FROM users WHERE name ^@ ANY (tags)
SELECT id FROM users WHERE xmlexists('//a' PASSING BY VALUE (name::xml))
SELECT xmlforest(name AS n, email) FROM users
SELECT normalize(name, NFC) FROM users
SELECT a FROM users, json_to_record(doc::json) AS (a int, b text)
SELECT name FROM users ORDER BY id LIMIT (SELECT max(team) FROM teams)

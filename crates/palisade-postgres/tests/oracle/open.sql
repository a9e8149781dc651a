-- Functions of the database that these call and our access set does not have: operators behind syntax that
-- shows none, and casts.
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
SELECT id::app.pair FROM users
SELECT best = id FROM users
SELECT CASE o WHEN o THEN 1 END FROM odds
SELECT CASE odd_of(1, 2) WHEN ARRAY[2, 4]::odd THEN 'wrong' END
SELECT o IN (o) FROM odds
SELECT CASE odd_of(1, 2) WHEN o THEN 1 END FROM odds

-- Functions of the database that these call and our access set does not have: operators behind syntax that
-- shows none, and casts.
SELECT id::app.pair FROM users
SELECT best = id FROM users
